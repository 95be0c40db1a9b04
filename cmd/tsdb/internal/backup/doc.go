// Package backup makes snapshots of a data directory and keeps backups of them.
//
// A snapshot lies in the data directory, has the layout of one, and shares its table files and log segments by hard links. A
// [Repository] is a directory of backups. Each backup is a directory with a manifest and all files of a snapshot. A file that an
// older backup has too is a hard link to it, so each backup is whole and may be removed without harm to another.
//
// A backup gets its final name last, after all of its files are durable. So a crash at any instant leaves whole backups, and
// directories with the suffix .partial that the next command removes.
package backup
