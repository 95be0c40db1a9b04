// Package resultcache keeps the results of PromQL queries, in memory and encoded. It uses an entry only for steps whose
// samples have not changed since the entry was stored. So a result from the cache equals an evaluation to the last bit.
//
// [Cache.Begin] makes the [Lookup] of a query. [Lookup.Find] returns the whole result, or the steps that the caller must still
// evaluate. [Lookup.Keep] stores the joined result. Principals that read different series never share an entry.
package resultcache
