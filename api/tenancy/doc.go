// Package tenancy determines the tenants of a request. They follow from the token or user that sends it, or from the header
// X-Scope-OrgID if the sender may name tenants.
package tenancy
