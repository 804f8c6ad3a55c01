import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useAwaited } from '../render/awaited.ts'
import { TextView } from '../render/TextView.tsx'
import type { DirectoryFile } from '../ui/site.ts'
import { files as words } from '../words/files.ts'
import { mayHaveScripts, runningDocument, stillDocument } from './document.ts'
import { sealsConnections } from './seal.ts'

/** HTML beyond this is shown as text. */
const HTML_BYTES_MAX = 16 * 1024 * 1024
const FRAME_READY_MS = 10_000

interface HtmlViewProps {
  blob: Blob
  from: string
  files: readonly DirectoryFile[]
}

/** Somebody's HTML, apart from everything of ours: still at first, with its scripts when asked. */
export function HtmlView({ blob, from, files }: HtmlViewProps) {
  const [running, setRunning] = useState(false)
  const place = useRef<HTMLDivElement>(null)
  const read = useAwaited(() => prepare(blob, from, files, running), [blob, from, files, running])
  if (blob.size > HTML_BYTES_MAX || (read !== null && 'failed' in read)) return <TextView blob={blob} />
  return (
    <>
      {read !== null && read.ok.hasScripts && (
        <div class="bar seal">
          <p>{sealSentence(running)}</p>
          <button type="button" onClick={() => setRunning(!running)}>
            {words(running ? 'stop' : 'run')}
          </button>
        </div>
      )}
      <div class="stage" ref={place}>
        {read === null && <p class="fetching" aria-busy="true" />}
        {read !== null && (
          <SealedFrame key={String(read.ok.running)} html={read.ok.html} running={read.ok.running} />
        )}
      </div>
      <div class="bar">
        {read !== null && read.ok.leftOut > 0 && (
          <p class="notice">{words('leftOut', { count: read.ok.leftOut })}</p>
        )}
        {document.fullscreenEnabled && (
          <button type="button" class="quiet" onClick={() => void place.current?.requestFullscreen()}>
            {words('wholeScreen')}
          </button>
        )}
      </div>
    </>
  )
}

async function prepare(blob: Blob, from: string, files: readonly DirectoryFile[], running: boolean) {
  if (blob.size > HTML_BYTES_MAX) return { html: '', leftOut: 0, hasScripts: false, running }
  const text = await blob.text()
  const prepared = await (running ? runningDocument : stillDocument)(text, from, files)
  return { ...prepared, hasScripts: mayHaveScripts(text), running }
}

/** What a page's scripts may and may not do in this browser. */
export function sealSentence(running: boolean): string {
  const how = words(running ? 'running' : 'still')
  return sealsConnections(navigator) ? how : `${how} ${words('weaker')}`
}

/** The shell that the server sends sealed, with the HTML handed over once it is there. */
function SealedFrame({ html, running }: { html: string; running: boolean }) {
  const frame = useRef<HTMLIFrameElement>(null)
  const [failed, setFailed] = useState(false)
  // Before anything is painted: the frame says once that it is there, and may be sooner than that.
  useLayoutEffect(() => {
    const timer = setTimeout(() => setFailed(true), FRAME_READY_MS)
    const hand = (event: MessageEvent) => {
      // Its origin is "null", like that of every sealed frame; only the source tells them apart.
      if (event.source === null || event.source !== frame.current?.contentWindow) return
      removeEventListener('message', hand)
      clearTimeout(timer)
      frame.current.contentWindow.postMessage(running ? { running: html } : { still: html }, '*')
    }
    addEventListener('message', hand)
    return () => {
      removeEventListener('message', hand)
      clearTimeout(timer)
    }
  }, [html, running])
  if (failed) {
    return (
      <p class="notice bad" role="alert">
        {words('frameMissing')}
      </p>
    )
  }
  return (
    <iframe
      ref={frame}
      title={words(running ? 'frameRunning' : 'frameStill')}
      sandbox="allow-scripts"
      referrerpolicy="no-referrer"
      src="/frame"
    />
  )
}
