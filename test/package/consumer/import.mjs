// An ESM backend: every entry of the package is imported. Prints the names of the functions that it found.
const names = (exports) => Object.keys(exports).filter((name) => typeof exports[name] === 'function')

console.log(
  JSON.stringify({
    pawl: names(await import('pawl')),
    client: names(await import('pawl/client')),
    worker: names(await import('pawl/worker')),
    models: names(await import('pawl/models')),
    tools: names(await import('pawl/tools')),
    service: names(await import('pawl/service')),
    testing: names(await import('pawl/testing')),
  }),
)
