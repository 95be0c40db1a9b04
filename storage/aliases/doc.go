// Package aliases gives metrics, labels and label values a second name without rewriting their samples.
//
// An [Alias] replaces an old name by a new one, starting at a given hour. A [Set] holds the aliases of a tenant. It
// turns a selector by either name into selectors of stored series, and stored labels into labels with the new names.
// The [Registry] keeps aliases in table meta.
//
// Each name has at most one new name. Aliases may form chains: with a → b and b → c, the new name of a is c. The registry
// refuses loops. A series that has both labels of an alias of label names keeps both.
package aliases
