import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { shell } from '../messages/shell.ts'
import { afterPaint } from './after-paint.ts'

/** A component that is loaded when it is first shown, so that the first load stays small. */
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>) {
  let loaded: ComponentType<P> | null = null
  return function Deferred(props: P) {
    const [Shown, setShown] = useState<ComponentType<P> | null>(() => loaded)
    const [failed, setFailed] = useState(false)
    useEffect(() => {
      if (loaded !== null) return
      load().then(
        (component) => {
          loaded = component
          setShown(() => component)
        },
        () => setFailed(true),
      )
    }, [])
    if (Shown !== null) return <Shown {...props} />
    if (failed) {
      return (
        <p class="notice" role="alert">
          {shell('partMissing')}
        </p>
      )
    }
    return <p class="fetching" aria-busy="true" />
  }
}

/** The same, but loaded after the first paint. */
export function lazyAfterPaint<P extends object>(load: () => Promise<ComponentType<P>>) {
  return lazy(() => afterPaint().then(load))
}
