// Package health watches the background work of the LSM tree. A Monitor counts failures, logs them at a bounded rate, and
// decides whether to admit writes.
//
// The tree's own listener would end the process at damage. With a Monitor, a full disk stops writes only until space is
// free again. Damage fails only the reads that need the damaged part.
package health
