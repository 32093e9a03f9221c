// Package bench measures Guyline: against the server, and against simpler ways to use it.
//
// A [Place] is the server that is measured on. Rates depend on the machine and on what else runs on it, so every number here is also
// given as a ratio to a yardstick that was measured in the same repetition, and as processor time.
package bench
