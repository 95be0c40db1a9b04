// Package tenants keeps the list of tenants in table meta: a row for each tenant other than the default one.
//
// A tenant is in the list before its first sample is acknowledged. So a server without tenants finds out that it must not
// open the store.
package tenants
