// Package look lets many callers share requests that ask for the newest state of something.
//
// A caller gets the outcome of a look that began after it called: one that is under way already may have missed what the
// caller has to know of. So there is at most one look under way and one that waits, however many callers there are.
//
// It knows nothing of what is looked at. All methods may be called at once.
package look
