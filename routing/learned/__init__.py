"""The classifier `learned`: how likely the cheapest and the dearest tier are good enough, from outcomes of real models.

grams (beside this package)   text → hashed words and pairs, and a few capped amounts
policy                        weights, calibration, what was met in training → `Judged`; no numpy
file                          a policy as one compact file
classifier                    the newest human ask of a request → `Verdict`
ridge, train                  outcomes → a policy; numpy, and never loaded by a gateway that only serves
"""
