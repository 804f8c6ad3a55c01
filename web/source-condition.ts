import { defaultClientConditions, defaultServerConditions } from 'vite'

/** The condition in the `exports` of our packages that selects their sources instead of what is built from them. */
const CONDITION = 'watchfire-source'

/** Settings for Vite, which then needs no built packages. */
export const fromSource = {
  resolve: { conditions: [CONDITION, ...defaultClientConditions] },
  ssr: { resolve: { conditions: [CONDITION, ...defaultServerConditions] } },
}

/** The same for tests, which run in Node, also those with a document. */
export const fromSourceInNode = {
  ...fromSource,
  resolve: { conditions: [CONDITION, ...defaultServerConditions] },
}
