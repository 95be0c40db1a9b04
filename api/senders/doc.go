// Package senders remembers who writes: what each sender got stored, and what the server refused and why. The status page and
// the overview show it, and the log has a line for each kind of refusal, at most one a minute.
package senders
