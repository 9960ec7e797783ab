// How workflow code is bundled.

/** What this changes of webpack's configuration. */
interface Config {
  optimization?: object
}

/**
 * Joins the modules of a bundle, for the hook of the SDK's bundler. In separate modules, each use of an import reads a property of another
 * module: the digests of events take ten times as long then.
 */
export function joinModules<C extends Config>(config: C): C {
  return { ...config, optimization: { ...config.optimization, concatenateModules: true, usedExports: true, providedExports: true } }
}
