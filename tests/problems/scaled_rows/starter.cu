// a starter in float32
