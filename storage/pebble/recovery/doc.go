// Package recovery checks an LSM tree before the store opens it. It names damaged and missing files, and omits files whose
// loss is accepted. It verifies every block, key and value of a tree that no process has open.
package recovery
