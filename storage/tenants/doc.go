// Package tenants keeps the list of tenants in table meta: a row for each tenant but the default one.
//
// A tenant is in the list before its first sample is acknowledged. So a server without tenants that opens the store sees that it
// must not.
package tenants
