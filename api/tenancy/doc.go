// Package tenancy decides for which tenants a request is: of the token or user that sends it, or as the header
// X-Scope-OrgID says if the sender may name tenants.
package tenancy
