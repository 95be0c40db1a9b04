// Package seeds gives random tests their seeds. HALITE_SEED=n replays one seed, and HALITE_SEEDS=n sets the number of seeds.
// It imports no package of the module.
package seeds
