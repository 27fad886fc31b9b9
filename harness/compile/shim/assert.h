// <assert.h>: the compiler brings assert() itself.
#pragma once
