// Package seeds tells random tests which seeds to run. HALITE_SEED=n replays one seed, HALITE_SEEDS=n runs more or fewer than
// the default. It imports nothing of the module.
package seeds
