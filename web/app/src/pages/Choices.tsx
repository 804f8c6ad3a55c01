import '../style/page.css'
import type { ComponentChildren } from 'preact'
import { editor } from '../messages/editor.ts'
import { home } from '../messages/home.ts'
import { live } from '../messages/live.ts'
import type { Draft } from './draft.ts'
import { Toggle } from './Toggle.tsx'

/** Short enough for the title of a live page in any script, see docs/reference/protocols/live.md. */
const TITLE_LENGTH_MAX = 80
/** Width up to which the explanations would push the rest of the editor out of the window. */
const isNarrow = matchMedia('(max-width: 30rem)').matches

interface ChoicesProps {
  draft: Draft
  change: (change: (before: Draft) => Draft) => void
}

/** The effect of the text's format, and the switches that make a private or live page of the draft, with the title of a live page. */
export function Choices({ draft: { writing, isPrivate, liveTitle }, change }: ChoicesProps) {
  return (
    <>
      <div class="means">
        <Means id="means" of={home(writing)}>
          {editor(`${writing}Means`)}
        </Means>
      </div>
      <div class="sealing">
        <Toggle
          label={editor('sealed')}
          means="seals"
          isOn={isPrivate}
          onChange={(isOn) => change((before) => ({ ...before, isPrivate: isOn, liveTitle: null }))}
        />
        <Means id="seals" of={editor('sealed')}>
          {editor('sealedMeans')}
        </Means>
      </div>
      <div class="sealing">
        <Toggle
          label={live('live')}
          means="grows"
          isOn={liveTitle !== null}
          // A live page cannot be private.
          onChange={(isOn) => change((before) => ({ ...before, liveTitle: isOn ? '' : null, isPrivate: !isOn && before.isPrivate }))}
        />
        <Means id="grows" of={live('live')}>
          {live('liveMeans')}
        </Means>
        {liveTitle !== null && (
          <input
            aria-label={live('title')}
            placeholder={live('title')}
            dir="auto"
            maxLength={TITLE_LENGTH_MAX}
            value={liveTitle}
            onInput={({ currentTarget: { value } }) => change((before) => ({ ...before, liveTitle: value }))}
          />
        )}
      </div>
    </>
  )
}

/** An explanation. In a narrow window it is behind a tap. */
function Means({ id, of, children }: { id: string; of: string; children: ComponentChildren }) {
  const explanation = (
    <p class="small" id={id}>
      {children}
    </p>
  )
  if (!isNarrow) return explanation
  return (
    <details>
      <summary class="small">{editor('about', { name: of })}</summary>
      {explanation}
    </details>
  )
}
