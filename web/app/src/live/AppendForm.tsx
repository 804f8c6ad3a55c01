import type { LiveSource } from '@watchfire/pages/live'
import { useRef, useState } from 'preact/hooks'
import { withLineBreaks } from '../files/line-breaks.ts'
import { live as text } from '../messages/live.ts'
import { FilePicker, filesOf } from '../ui/FilePicker.tsx'
import type { PageFile, PageSession } from '../ui/site.ts'
import { fileEntries, NOTE_NAME, textEntry } from './entries.ts'

const FORMATS = ['text', 'markdown'] as const

/** The field with which the publisher adds texts and files to a live page. */
export function AppendForm({ session }: { session: PageSession }) {
  const [words, setWords] = useState('')
  const [format, setFormat] = useState<(typeof FORMATS)[number]>('text')
  const [isAdding, setAdding] = useState(false)
  const [problem, setProblem] = useState<string | null>(null)
  const box = useRef<HTMLTextAreaElement>(null)

  const append = async (entries: readonly LiveSource[]): Promise<boolean> => {
    const swarm = session.swarm.peek()
    if (swarm === null || isAdding) return false
    setProblem(null)
    setAdding(true)
    try {
      for (const entry of entries) await swarm.append(entry)
      return true
    } catch (reason) {
      setProblem(reason instanceof Error && reason.message !== '' ? reason.message : text('notAdded'))
      return false
    } finally {
      setAdding(false)
    }
  }
  const addText = async () => {
    if (words.trim() === '') return box.current?.focus()
    // Lines of Markdown stay lines.
    const entry = format === 'markdown' ? textEntry(withLineBreaks(words), NOTE_NAME) : textEntry(words, null)
    // The beginning of the next entry may be behind it already.
    if (await append([entry])) setWords((now) => (now.startsWith(words) ? now.slice(words.length) : now))
    box.current?.focus()
  }
  const addFiles = (files: readonly PageFile[]) => void append(fileEntries(files))

  return (
    <form
      class="append"
      aria-label={text('add')}
      aria-busy={isAdding}
      onSubmit={(event) => {
        event.preventDefault()
        void addText()
      }}
    >
      <textarea
        ref={box}
        rows={3}
        dir="auto"
        aria-label={text('box')}
        placeholder={text('invitation')}
        value={words}
        onInput={({ currentTarget: { value } }) => setWords(value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
          event.preventDefault()
          void addText()
        }}
        onPaste={(event) => {
          const files = filesOf(event.clipboardData?.files)
          if (files.length === 0) return
          event.preventDefault()
          addFiles(files)
        }}
      />
      {problem !== null && (
        <p class="notice bad" role="alert">
          {problem}
        </p>
      )}
      <div class="bar">
        <fieldset class="switch" disabled={isAdding}>
          <legend class="unseen">{text('format')}</legend>
          {FORMATS.map((each) => (
            <label key={each}>
              <input type="radio" name="format" checked={format === each} onChange={() => setFormat(each)} />
              <span>{text(each)}</span>
            </label>
          ))}
        </fieldset>
        <FilePicker label={text('addFiles')} isDisabled={isAdding} onPick={addFiles} />
        <button type="submit" class="light" disabled={isAdding}>
          {text(isAdding ? 'adding' : 'submit')}
        </button>
      </div>
      <p class="small">{text('onlyHere')}</p>
    </form>
  )
}
