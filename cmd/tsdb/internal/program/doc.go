// Package program holds what all sub-commands share: the name of the program, values of flags, and errors about arguments.
package program
