// Package notes keeps what people write about series and names: annotations, and descriptions in the form of OpenTSDB's
// metadata. Each is a JSON document in a row of table meta.
//
// An annotation belongs to a time, and to a series or to all. Annotations of a series lie beside each other in the order of their
// times. [Store.Sweep] deletes the ones whose time is too old.
package notes
