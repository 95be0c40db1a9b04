// Package config reads the configuration file of a server: YAML with the rules and limits that a reload may change. It reads no
// flag and does not depend on the users of the configuration. Every fault names line, column and field.
package config
