#pragma once
#ifndef NULL
#define NULL 0
#endif
typedef decltype(static_cast<char*>(nullptr) - static_cast<char*>(nullptr)) ptrdiff_t;
#define offsetof(type, member) __builtin_offsetof(type, member)
