// Package envelope seals values of the index's tables and reads their payloads.
//
// A sealed value has a format byte, a payload, and a CRC-32C over row key, qualifier, format and payload. The checksum covers
// the place of the cell, so it also detects a value in the wrong place.
package envelope
