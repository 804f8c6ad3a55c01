import { useEffect, useRef, useState } from 'preact/hooks'

/** Files were dropped at a place on the screen, or pasted, at none. */
type OnFiles = (files: readonly File[], drop: { clientX: number; clientY: number } | null) => void

/**
 * Hears of files that are dropped anywhere on the window, or pasted, and says whether some hover over it. Without this a
 * file that misses the stage would take the window away to show itself.
 */
export function useFilesBrought(onFiles: OnFiles): boolean {
  const [isHovering, setHovering] = useState(false)
  const latest = useRef(onFiles)
  latest.current = onFiles
  useEffect(() => {
    const stop = new AbortController()
    const { signal } = stop
    const filesOf = (transfer: DataTransfer | null) => [...(transfer?.files ?? [])]
    addEventListener('dragover', (event) => {
      if (!event.dataTransfer?.types.includes('Files')) return
      event.preventDefault()
      event.dataTransfer.dropEffect = 'copy'
      setHovering(true)
    }, { signal })
    addEventListener('dragleave', (event) => {
      // Between two elements it has not left the window.
      if (event.relatedTarget === null) setHovering(false)
    }, { signal })
    addEventListener('drop', (event) => {
      setHovering(false)
      if (!event.dataTransfer?.types.includes('Files')) return
      event.preventDefault()
      latest.current(filesOf(event.dataTransfer), event)
    }, { signal })
    addEventListener('paste', (event) => {
      const files = filesOf(event.clipboardData)
      if (files.length === 0) return
      event.preventDefault()
      latest.current(files, null)
    }, { signal })
    return () => stop.abort()
  }, [])
  return isHovering
}
