// Package refresh shares one read of some state among all callers that need its newest version.
//
// A caller gets the result of a read that began after its call, because a running read may miss a change that the caller
// depends on. So at most one read runs and at most one waits, however many callers there are.
//
// The package does not depend on the state. All methods are safe for concurrent use.
package refresh
