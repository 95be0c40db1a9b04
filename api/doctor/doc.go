// Package doctor judges the state of a server. Each check reads facts and returns verdicts: what is wrong, the figures
// that show it, and the command or rule that fixes it. The package does no I/O and reads no clock. Package
// api/doctor/facts collects the facts.
package doctor
