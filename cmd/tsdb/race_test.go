//go:build race

package main_test

// raceEnabled says that this test binary has the race detector; the server it starts then has it too.
const raceEnabled = true
