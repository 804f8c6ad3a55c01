import { useEffect, useRef, useState } from 'preact/hooks'

/** Called with files that were dropped at a place on the screen, or pasted. */
type OnFiles = (files: readonly File[], drop: { clientX: number; clientY: number } | null) => void

/**
 * Accepts files that are dropped anywhere on the window, or pasted; returns whether files are being dragged over it.
 * Without this, the browser would navigate to a file that misses the stage.
 */
export function useDroppedFiles(onFiles: OnFiles): boolean {
  const [isHovering, setHovering] = useState(false)
  const latest = useRef(onFiles)
  latest.current = onFiles
  useEffect(() => {
    const stop = new AbortController()
    const { signal } = stop
    const filesOf = (transfer: DataTransfer | null) => [...(transfer?.files ?? [])]
    addEventListener(
      'dragover',
      (event) => {
        if (!event.dataTransfer?.types.includes('Files')) return
        event.preventDefault()
        event.dataTransfer.dropEffect = 'copy'
        setHovering(true)
      },
      { signal },
    )
    addEventListener(
      'dragleave',
      (event) => {
        // Moving between two elements does not leave the window.
        if (event.relatedTarget === null) setHovering(false)
      },
      { signal },
    )
    addEventListener(
      'drop',
      (event) => {
        setHovering(false)
        if (!event.dataTransfer?.types.includes('Files')) return
        event.preventDefault()
        latest.current(filesOf(event.dataTransfer), event)
      },
      { signal },
    )
    addEventListener(
      'paste',
      (event) => {
        const files = filesOf(event.clipboardData)
        if (files.length === 0) return
        event.preventDefault()
        latest.current(files, null)
      },
      { signal },
    )
    return () => stop.abort()
  }, [])
  return isHovering
}
