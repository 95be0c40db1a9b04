// Package aliases gives metrics, labels and label values a second name without rewriting their samples.
//
// An [Alias] gives an old name a new one from an hour on. A [Set] holds the aliases of a tenant. It turns a selector by
// either name into selectors of stored series, and stored labels into labels with the new names. The [Registry] keeps
// aliases in table meta.
//
// Each name has at most one new name. Chains are followed: with a → b and b → c, the new name of a is c. Loops are refused.
// A series that has both labels of an alias of label names keeps both.
package aliases
