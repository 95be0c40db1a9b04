// Package aliases gives metrics, labels and label values a second name without a write of their samples.
//
// An [Alias] says that an old name is called by a new one from an hour on. A [Set] holds the aliases of a tenant. It turns a
// selector by either name into selectors of stored series, and stored labels into labels with the new names. The [Registry] keeps
// aliases in table meta.
//
// The rules: each name has at most one new name. Chains are followed (a → b and b → c call a by the name c), loops are refused.
// A series that has both labels of an alias of label names keeps them.
package aliases
