// How workflow code is bundled.

/** The part of webpack's configuration that this changes. */
interface Config {
  optimization?: object
}

/**
 * Joins the modules of a bundle. It is a hook of the SDK's bundler. In separate modules, each use of an import reads a property of another
 * module, which makes the digests of events ten times as slow.
 */
export function joinModules<C extends Config>(config: C): C {
  return { ...config, optimization: { ...config.optimization, concatenateModules: true, usedExports: true, providedExports: true } }
}
