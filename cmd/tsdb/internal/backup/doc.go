// Package backup makes snapshots of a data directory and keeps backups of them.
//
// A snapshot lies in the data directory, has the layout of one, and shares its table files and log segments by hard links. A
// [Repository] is a directory of backups. Each backup is a directory with a manifest and all files of a snapshot. A file that an
// older backup also has is a hard link to it. So each backup is complete, and its removal does not harm another backup.
//
// A backup gets its final name last, after all of its files are durable. A crash at any instant leaves complete backups and
// directories with the suffix .partial. The next command removes these directories.
package backup
