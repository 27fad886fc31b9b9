// a starter in float16
