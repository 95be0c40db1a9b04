// Package resultcache keeps results of queries. It uses an entry only for steps around which no sample has changed since, so
// that an answer from the cache is the one that an evaluation would give.
//
// [Cache.Begin] prepares the [Lookup] of a query, [Lookup.Find] finds what the cache has, and [Lookup.Keep] keeps the result.
package resultcache
