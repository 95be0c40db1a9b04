// Package config reads the configuration file of a server: YAML with the rules and limits that a reload may change. It reads no
// flag, and it does not know who uses the configuration. Every fault names line, column and field.
package config
