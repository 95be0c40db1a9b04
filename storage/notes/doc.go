// Package notes stores the notes of users about series and names: annotations, and descriptions in the form of OpenTSDB's
// metadata. Each note is a JSON document in a row of table meta.
//
// An annotation belongs to a time, and to one series or to all. The annotations of a series are adjacent, in the order of
// their times. [Store.Sweep] deletes annotations that are too old.
package notes
