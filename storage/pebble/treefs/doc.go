// Package treefs is the file system below the LSM tree. It waits for disk space, makes file names durable, and records how
// much of the manifest is durable (SYNCED).
package treefs
