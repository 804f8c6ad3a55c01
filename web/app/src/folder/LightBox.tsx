import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { wholeOf } from '../files/reading.ts'
import { folder as text } from '../messages/folder.ts'
import { shownName } from '../names/index.ts'
import { fileLink } from '../ui/location.ts'
import { replaceAddress } from '../ui/replace-address.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { swipeStep } from './album.ts'

interface LightBoxProps {
  /** The pictures of the folder in the order of the gallery. */
  pictures: readonly DirectoryFile[]
  /** The path of the picture that is shown. */
  path: string
  /** The picture, with its name and what saves it. */
  children: ComponentChildren
  /** Called when the reader closes it. */
  onClose(): void
}

/** One picture of a folder above all else. Its arrows show the others without a place in the history, so that Back closes it. */
export function LightBox({ pictures, path, children, onClose }: LightBoxProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const touched = useRef<Touch | null>(null)
  const at = pictures.findIndex((picture) => picture.path === path)
  const count = at < 0 ? 0 : pictures.length
  const stepTo = (step: number) => pictures[(at + step + count) % count]
  const turn = (step: number) => {
    const picture = count > 1 && step !== 0 ? stepTo(step) : undefined
    if (picture !== undefined) replaceAddress(fileLink(picture.path))
  }
  const onDrawn = useAhead(path, count > 1 ? (stepTo(1) ?? null) : null)
  useEffect(() => dialog.current?.showModal(), [])
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return
    const forward = isLeftToRight() ? 'ArrowRight' : 'ArrowLeft'
    if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return
    event.preventDefault()
    turn(event.key === forward ? 1 : -1)
  }
  const onTouchEnd = ({ changedTouches, touches }: TouchEvent) => {
    const from = touched.current
    const to = changedTouches[0]
    touched.current = null
    // Two fingers enlarge the picture, and one then moves it.
    if (from === null || to === undefined || touches.length > 0 || (visualViewport?.scale ?? 1) > 1) return
    turn(swipeStep(to.clientX - from.clientX, to.clientY - from.clientY, isLeftToRight()))
  }
  return (
    <dialog
      ref={dialog}
      class="light-box"
      aria-label={shownName(path)}
      onClose={onClose}
      onKeyDown={onKeyDown}
      onLoadCapture={onDrawn}
      onTouchStart={({ touches }) => (touched.current = touches.length === 1 ? (touches[0] ?? null) : null)}
      onTouchEnd={onTouchEnd}
    >
      <button
        type="button"
        class="quiet icon close"
        aria-label={text('close')}
        title={text('close')}
        onClick={() => dialog.current?.close()}
      >
        <Mark path="m5 5 10 10M15 5 5 15" />
      </button>
      {children}
      {count > 1 && (
        <div class="bar turns">
          <button type="button" class="icon" aria-label={text('previous')} title={text('previous')} onClick={() => turn(-1)}>
            <Mark path="m12 4-6 6 6 6" />
          </button>
          <p role="status">
            <span class="unseen">{shownName(path)} </span>
            {text('place', { place: at + 1, total: count })}
          </p>
          <button type="button" class="icon" aria-label={text('next')} title={text('next')} onClick={() => turn(1)}>
            <Mark path="m8 4 6 6-6 6" />
          </button>
        </div>
      )}
    </dialog>
  )
}

/** Requests the next picture once the shown one is drawn, which the returned function tells. */
function useAhead(path: string, next: DirectoryFile | null): () => void {
  const [drawn, setDrawn] = useState<string | null>(null)
  useEffect(() => {
    if (drawn !== path || next === null) return
    const stop = new AbortController()
    // Without it, the next picture is requested when it is shown.
    wholeOf(next, stop.signal).catch(() => undefined)
    return () => stop.abort(new DOMException('another picture is shown', 'AbortError'))
  }, [drawn, path, next])
  return () => setDrawn(path)
}

function isLeftToRight(): boolean {
  return document.documentElement.dir !== 'rtl'
}

function Mark({ path }: { path: string }) {
  return (
    <svg class="mark" width="20" height="20" viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">
      <path d={path} stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  )
}
