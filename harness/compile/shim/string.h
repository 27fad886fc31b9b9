// <string.h>: memcpy and memset come with the compiler.
#pragma once
#include <stddef.h>
