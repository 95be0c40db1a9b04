// Package resultcache keeps results of queries. It uses an entry only for steps around which no sample has changed since the
// entry was stored. So an answer from the cache equals an evaluation.
//
// [Cache.Begin] prepares the [Lookup] of a query, [Lookup.Find] finds what the cache has, and [Lookup.Keep] keeps the result.
package resultcache
