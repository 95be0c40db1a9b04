// Package backup makes snapshots of a data directory and keeps backups of them.
//
// A snapshot lies in the data directory, has the layout of one, and shares its table files and log segments by hard links. A
// [Repository] is a directory or a bucket with backups. Each backup is a manifest and all files of a snapshot. Backups share
// equal files: by hard links in a directory, by the SHA-256 in the object's key in a bucket. So each backup is complete, and its
// removal does not harm another backup.
//
// A backup gets its final name last, after all of its files are durable. A crash at any instant leaves complete backups and
// entries with the suffix .partial. The next command removes these entries.
package backup
