import { useEffect, useRef, useState } from 'preact/hooks'

/** Accepts files dropped anywhere on the page; returns whether files are being dragged over it. */
export function useDrop(onDrop: (transfer: DataTransfer) => void): boolean {
  const [dragging, setDragging] = useState(false)
  const take = useRef(onDrop)
  take.current = onDrop
  useEffect(() => {
    const listening = new AbortController()
    const { signal } = listening
    const holdsFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') === true
    addEventListener(
      'dragover',
      (event) => {
        if (!holdsFiles(event) || event.dataTransfer === null) return
        event.preventDefault()
        event.dataTransfer.dropEffect = 'copy'
        setDragging(true)
      },
      { signal },
    )
    addEventListener(
      'dragleave',
      (event) => {
        if (event.relatedTarget === null) setDragging(false)
      },
      { signal },
    )
    addEventListener(
      'drop',
      (event) => {
        setDragging(false)
        if (!holdsFiles(event) || event.dataTransfer === null) return
        event.preventDefault()
        take.current(event.dataTransfer)
      },
      { signal },
    )
    return () => listening.abort()
  }, [])
  return dragging
}
