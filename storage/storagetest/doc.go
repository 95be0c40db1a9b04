// Package storagetest checks that an engine keeps every promise of package storage.
//
// [Run] is all that an engine's tests need to call: it runs small tests by theme, and long random runs in which the
// engine and a plain map, [NewModel], must give the same answers to the same operations. An engine that cannot do
// something says so in [Caps]; whatever it does not name there and fails is a fault of the engine.
//
// A random run prints its seed when it fails. HALITE_SEED repeats that one run, and
// HALITE_STORAGETEST_RUNS asks for more runs than usual.
//
// Nothing here measures speed.
package storagetest
