// Package crashfs helps crash tests to clone an in-memory file system while other goroutines use it.
package crashfs
