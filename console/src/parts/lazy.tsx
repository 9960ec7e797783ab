// Parts of the page that are loaded when somebody needs them.
import type { ComponentType, VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Problem } from './common.tsx'

/** A component whose code is loaded with its first use. */
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): (props: P) => VNode | null {
  let loaded: ComponentType<P> | undefined
  return function Lazy(props: P) {
    const [Loaded, setLoaded] = useState(() => loaded)
    const [isMissing, setMissing] = useState(false)
    useEffect(() => {
      if (loaded) return
      load().then(
        (component) => {
          loaded = component
          setLoaded(() => component)
        },
        () => setMissing(true),
      )
    }, [])
    // The server may serve another build by now, whose files have other names.
    if (isMissing) return <Problem text="A part of the console could not be loaded. Reload the page." />
    return Loaded ? <Loaded {...props} /> : null
  }
}
