// Package docs holds the tests of the documents: every plan that they show
// compiles, or fails with the codes that they name; plans of the cookbook, clients
// and commands of the tutorial run; every link and every path leads somewhere; every
// message that they quote is in the code; every number that is a constant of the code
// has its value.
package docs
