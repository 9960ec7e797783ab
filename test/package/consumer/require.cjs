// A CommonJS backend: every entry of the package is required. Prints the names of the functions that it found.
const names = (exports) => Object.keys(exports).filter((name) => typeof exports[name] === 'function')

console.log(
  JSON.stringify({
    pawl: names(require('pawl')),
    client: names(require('pawl/client')),
    worker: names(require('pawl/worker')),
    models: names(require('pawl/models')),
    tools: names(require('pawl/tools')),
    service: names(require('pawl/service')),
    testing: names(require('pawl/testing')),
  }),
)
