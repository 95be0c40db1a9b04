// Package storagetest checks that an engine keeps every promise of package storage.
//
// An engine's tests call [Run]. It runs small tests of each feature, and then random operations on the engine and on a plain
// map, [NewModel]. Both must give the same results. An engine declares in [Caps] the promises that it does not keep. Any other
// difference is a fault of the engine.
//
// A random run prints its seed when it fails. HALITE_SEED repeats that run, and HALITE_SEEDS sets the number of runs.
//
// The suite does not measure speed.
package storagetest
