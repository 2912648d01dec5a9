// Package docs holds the tests of the documents: every plan that they show
// compiles, or fails with the codes that they name; every link and every path
// leads somewhere; every number that is a constant of the code has its value.
package docs
