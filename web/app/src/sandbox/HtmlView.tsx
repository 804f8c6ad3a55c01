import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useAsync } from '../ui/use-async.ts'
import { encodingOf, HTML_BYTES_MAX } from '@watchfire/pages/files'
import { TextView } from '../files/TextView.tsx'
import type { DirectoryFile } from '../ui/site.ts'
import { files as text } from '../messages/files.ts'
import { mayHaveScripts, scriptedDocument, staticDocument } from './document.ts'
import { blocksConnections } from './blocks-connections.ts'

const FRAME_READY_MS = 10_000

interface HtmlViewProps {
  blob: Blob
  from: string
  files: readonly DirectoryFile[]
}

/** Untrusted HTML in a sandbox, without scripts until the reader allows them. */
export function HtmlView({ blob, from, files }: HtmlViewProps) {
  const [running, setRunning] = useState(false)
  const place = useRef<HTMLDivElement>(null)
  const read = useAsync(() => prepare(blob, from, files, running), [blob, from, files, running])
  if (blob.size > HTML_BYTES_MAX || (read !== null && 'failed' in read)) return <TextView blob={blob} declaring="html" />
  return (
    <>
      {read?.ok.isGuessed && <p class="notice">{text('encodingGuessed')}</p>}
      {read?.ok.hasScripts && (
        <div class="bar sandbox">
          <p>{sandboxSentence(running)}</p>
          <button type="button" onClick={() => setRunning(!running)}>
            {text(running ? 'stop' : 'run')}
          </button>
        </div>
      )}
      <div class="stage" ref={place}>
        {read === null && <p class="fetching" aria-busy="true" />}
        {read !== null && <SandboxFrame key={read.ok.id} html={read.ok.html} running={read.ok.running} />}
      </div>
      <div class="bar">
        {read !== null && read.ok.leftOut > 0 && <p class="notice">{text('leftOut', { count: read.ok.leftOut })}</p>}
        {document.fullscreenEnabled && (
          <button type="button" class="quiet" onClick={() => void place.current?.requestFullscreen()}>
            {text('fullScreen')}
          </button>
        )}
      </div>
    </>
  )
}

/** Documents so far. A frame announces itself only once, so each document has a frame of its own. */
let documents = 0

async function prepare(blob: Blob, from: string, files: readonly DirectoryFile[], running: boolean) {
  const id = ++documents
  if (blob.size > HTML_BYTES_MAX) return { id, html: '', leftOut: 0, hasScripts: false, isGuessed: false, running }
  const bytes = new Uint8Array(await blob.arrayBuffer())
  const encoding = encodingOf(bytes, 'html')
  const html = new TextDecoder(encoding.label).decode(bytes)
  const prepared = await (running ? scriptedDocument : staticDocument)(html, from, files, encoding)
  return { ...prepared, id, hasScripts: mayHaveScripts(html), isGuessed: encoding.by === 'guess', running }
}

/** The abilities and limits of a page's scripts in this browser. */
export function sandboxSentence(running: boolean): string {
  const how = text(running ? 'withScripts' : 'withoutScripts')
  return blocksConnections(navigator) ? how : `${how} ${text('connectionsOpen')}`
}

/** The sandboxed shell from the server; it receives the HTML once it has loaded. */
function SandboxFrame({ html, running }: { html: string; running: boolean }) {
  const frame = useRef<HTMLIFrameElement>(null)
  const [failed, setFailed] = useState(false)
  // A layout effect, because the frame announces itself only once, possibly before the first paint.
  useLayoutEffect(() => {
    const timer = setTimeout(() => setFailed(true), FRAME_READY_MS)
    const hand = (event: MessageEvent) => {
      // The origin of every sandboxed frame is "null", so only the source identifies it.
      if (event.source === null || event.source !== frame.current?.contentWindow) return
      removeEventListener('message', hand)
      clearTimeout(timer)
      frame.current.contentWindow.postMessage(running ? { scripted: html } : { static: html }, '*')
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
        {text('frameMissing')}
      </p>
    )
  }
  return (
    <iframe
      ref={frame}
      title={text(running ? 'frameWithScripts' : 'frameWithoutScripts')}
      sandbox="allow-scripts"
      referrerpolicy="no-referrer"
      src="/frame"
    />
  )
}
