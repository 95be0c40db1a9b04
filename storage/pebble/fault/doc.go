// Package fault turns errors of the LSM tree into errors of the storage contract. Damage names a file and the lost rows.
package fault
